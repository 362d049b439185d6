"""Images: layers, layouts, archives and registries."""
