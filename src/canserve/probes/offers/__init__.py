"""Where builds are heard of beside the machines: a candidates file, a registry's tags, a search of public hubs."""
