"""Reading over HTTP: whole pages, ranges of files, whole files; bounded in size and in time."""
