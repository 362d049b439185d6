"""The parameters of a model's building blocks: attention, recurrent mixers, MLPs, experts, towers."""
