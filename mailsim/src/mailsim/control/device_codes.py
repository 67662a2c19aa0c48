"""Control handlers of device sign-ins: list those that wait, and decide as their user would."""

from datetime import UTC, datetime

from mailsim.control.endpoint import ControlCall
from mailsim.control.schemas import DeviceSignInInfo
from mailsim.device_codes import DeviceSignIn
from mailsim.errors import InvalidRequest


async def list_device_codes(call: ControlCall) -> list[DeviceSignInInfo]:
    return [_sign_in_info(sign_in) for sign_in in call.sim.device_codes.list_open()]


async def decide_device_code(call: ControlCall) -> DeviceSignInInfo:
    """Approve with an account, or decline."""
    sign_in, body = call.sim.device_codes.get_open(call.path["user_code"]), call.body
    if body.decision == "deny":
        sign_in.declined = True
    elif not body.address:
        raise InvalidRequest("name the account that approves in `address`")
    else:
        sign_in.address = call.sim.registry.get_mailbox(body.address, sign_in.provider).address
    return _sign_in_info(sign_in)


def _sign_in_info(sign_in: DeviceSignIn) -> DeviceSignInInfo:
    return DeviceSignInInfo(
        provider=sign_in.provider,
        user_code=sign_in.user_code,
        client_id=sign_in.client_id,
        scopes=list(sign_in.scopes),
        expires=datetime.fromtimestamp(sign_in.expires, UTC).isoformat(),
        address=sign_in.address,
        declined=sign_in.declined,
    )
