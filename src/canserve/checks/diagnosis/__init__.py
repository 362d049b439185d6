"""From what was read of logs and stacks to the first cause. Pure; one line is never a verdict."""
