"""Builds the running parts from the settings: the only place that names what is behind each port.

`engine` builds the `Engine` of a process; `documents` what its worker needs for documents. The other modules
build single parts, for commands that need one of them and no Engine. This package imports nothing itself, so
that a command pays only for the parts it builds.
"""
