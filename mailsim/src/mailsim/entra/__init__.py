"""Simulated Microsoft Entra ID: sign-in pages, token endpoint, discovery, directory and grants.

It serves no mail: the mail API is `mailsim.graph`.
"""
