"""Reading Python sources without running them: constants, classes across modules, small predicates."""
