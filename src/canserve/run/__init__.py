"""Steps carried out on machines through ``transport``, and deployments looked at; the only place that changes a machine."""
