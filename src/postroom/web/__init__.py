"""The web process: pages, REST API, event streams and the endpoints for pushes. No SQL.

The only package that knows the web framework.
"""
