"""Entra's endpoints for metadata: OpenID configuration, signing keys, instance discovery, userinfo."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mailsim.entra.aadsts import EntraError, error_body
from mailsim.entra.context import EntraContext, base_url, guid_or_new
from mailsim.entra.grants import pairwise_subject

METHODS = ["client_secret_post", "private_key_jwt", "client_secret_basic"]


def _json_response(
    response: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(msgspec.json.encode(response), status, headers, "application/json; charset=utf-8")


def _error_response(entra: EntraContext, request: Request, error: EntraError) -> Response:
    response = error_body(
        error,
        now=entra.sim.clock.time(),
        trace=guid_or_new(entra),
        correlation=guid_or_new(entra, request.headers.get("client-request-id")),
        base_url=base_url(request),
    )
    return _json_response(response, 400)


async def configuration(entra: EntraContext, request: Request) -> Response:
    name = request.path_params["tenant"]
    try:
        tenant = entra.directory.check_tenant(name)
    except EntraError as error:
        return _error_response(entra, request, error)
    base = base_url(request)
    concrete = tenant not in {"common", "organizations", "consumers"}
    oauth = f"{base}/{tenant}/oauth2/v2.0"
    return _json_response(
        {
            "token_endpoint": f"{oauth}/token",
            "device_authorization_endpoint": f"{oauth}/devicecode",
            "token_endpoint_auth_methods_supported": METHODS,
            "jwks_uri": f"{base}/{tenant}/discovery/v2.0/keys",
            "response_modes_supported": ["query", "fragment", "form_post"],
            "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "response_types_supported": ["code"],
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "issuer": f"{base}/{tenant if concrete else '{tenantid}'}/v2.0",
            "request_uri_parameter_supported": False,
            "userinfo_endpoint": f"{base}/oidc/userinfo",
            "authorization_endpoint": f"{oauth}/authorize",
            "end_session_endpoint": f"{oauth}/logout",
            "claims_supported": [
                "sub", "iss", "aud", "exp", "iat", "nonce", "preferred_username", "name", "tid", "ver",
                "email",
            ],
            "tenant_region_scope": None,
            "cloud_instance_name": "microsoftonline.com",
            "cloud_graph_host_name": "graph.windows.net",
            "msgraph_host": "graph.microsoft.com",
        }
    )  # fmt: skip


async def configuration_v1(entra: EntraContext, request: Request) -> Response:
    """Return the configuration of version 1, with which programs validate tokens in Graph's pushes."""
    name = request.path_params["tenant"]
    try:
        tenant = entra.directory.check_tenant(name)
    except EntraError as error:
        return _error_response(entra, request, error)
    base = base_url(request)
    concrete = tenant not in {"common", "organizations", "consumers"}
    return _json_response(
        {
            "token_endpoint": f"{base}/{tenant}/oauth2/token",
            "token_endpoint_auth_methods_supported": METHODS,
            "jwks_uri": f"{base}/{tenant}/discovery/keys",
            "response_modes_supported": ["query", "fragment", "form_post"],
            "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "response_types_supported": ["code"],
            "scopes_supported": ["openid"],
            "issuer": f"https://sts.windows.net/{tenant if concrete else '{tenantid}'}/",
            "authorization_endpoint": f"{base}/{tenant}/oauth2/authorize",
            "end_session_endpoint": f"{base}/{tenant}/oauth2/logout",
            "userinfo_endpoint": f"{base}/{tenant}/openid/userinfo",
            "cloud_instance_name": "microsoftonline.com",
            "msgraph_host": "graph.microsoft.com",
        }
    )


async def keys(entra: EntraContext, request: Request) -> Response:
    return _json_response({"keys": [entra.grants.signer.jwk(f"{base_url(request)}/{{tenantid}}/v2.0")]})


async def instance(_entra: EntraContext, request: Request) -> Response:
    """Return the hosts that belong to the same cloud. MSAL requests them from the well-known host."""
    base = base_url(request)
    host = base.partition("://")[2]
    return _json_response(
        {
            "tenant_discovery_endpoint": f"{base}/common/v2.0/.well-known/openid-configuration",
            "api-version": "1.1",
            "metadata": [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}],
        }
    )


async def userinfo(entra: EntraContext, request: Request) -> Response:
    token = request.headers.get("authorization", "").partition(" ")[2]
    access = entra.grants.find_access_token(token)
    if access is None or access.user is None or access.expires <= entra.sim.clock.time():
        refusal = {
            "error": {"code": "InvalidAuthenticationToken", "message": "Access token validation failure."}
        }
        return _json_response(refusal, 401, {"www-authenticate": 'Bearer realm="", error="invalid_token"'})
    user = access.user
    claims = {
        "sub": pairwise_subject(entra.directory, access.application, user),
        "name": user.name,
        "email": user.upn,
    }
    return _json_response({**claims, "picture": "https://graph.microsoft.com/v1.0/me/photo/$value"})
