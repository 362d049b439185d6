"""Plans: build, placement, memory and speed together, ranked for a goal; a plan is a value."""
