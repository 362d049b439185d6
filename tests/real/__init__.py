"""Real engines on processors, over the two hosts of the lab: only ``canserve`` starts them."""
