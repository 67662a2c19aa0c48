"""Google's side of sign-in: OAuth clients, grants, tokens, keys, the consent page, Pub/Sub push.

It knows accounts and scopes; mail itself stands in `mailsim.gmail`.
"""
