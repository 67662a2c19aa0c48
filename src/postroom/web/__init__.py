"""The web process. The only place that knows the web framework."""
