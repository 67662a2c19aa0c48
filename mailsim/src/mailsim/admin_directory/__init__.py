"""The simulated Admin SDK Directory API: users and groups of a Google Workspace, read only."""
