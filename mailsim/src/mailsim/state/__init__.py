"""Saved state: the whole simulation in one file, which another process can load.

`object_graph` turns objects into JSON and back, `state_file` is the file format, `simulation_state` names
what is saved. A file is data only: loading one runs no code from it, opens no file and no connection.
"""
