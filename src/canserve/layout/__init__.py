"""Every legal spread of a model over named machines, and the rule that forbids each other one."""
