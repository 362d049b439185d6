"""Ask a served endpoint, within bounds of time and size, and note what it answers. Nothing is judged here."""
