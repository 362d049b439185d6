"""What is kept on the operator's machine: the journal of runs, in the user's data folder."""
