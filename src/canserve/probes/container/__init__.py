"""Containers, and images that a container engine holds, on this machine or another: read, never run."""
