"""Tests of what is carried out; a package, since it has a conftest of its own."""
