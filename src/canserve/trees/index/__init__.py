"""The package index as pip is configured to see it: which files a project has, and which one is meant."""
