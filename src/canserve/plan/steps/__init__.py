"""Steps: what a deployment is put into service with and taken away with, as values; nothing here runs anything."""
