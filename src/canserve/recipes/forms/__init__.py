"""One form of recipe a file: a tree or text in, a draft filled."""
