"""Whole stories over the two hosts of the lab: one command, whatever goes wrong on the way."""
