"""What a container engine holds as a tree: archives that it writes, thinned out where they are written."""
