"""An authenticator in software, which answers the options of a page as a browser with a passkey does."""

import json
import secrets
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cose import ES256
from fido2.utils import sha256, websafe_decode, websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

FLAG = AuthenticatorData.FLAG
VERIFIED = FLAG.UP | FLAG.UV


class Authenticator:
    """One passkey of one person on one site."""

    def __init__(self, host: str = "testserver") -> None:
        self.host, self.origin = host, f"https://{host}"
        self.credential_id = secrets.token_bytes(32)
        self.flags = VERIFIED
        self.user_handle = ""
        self._key = ec.generate_private_key(ec.SECP256R1())

    def create(self, options: str) -> str:
        """Return the answer to the options that ask for a new passkey."""
        asked = json.loads(options)
        self.user_handle = asked["user"]["id"]
        public_key = ES256.from_cryptography_key(self._key.public_key())  # type: ignore[no-untyped-call]
        made = AttestedCredentialData.create(bytes(16), self.credential_id, public_key)
        data = AuthenticatorData.create(sha256(self.host.encode()), self.flags | FLAG.AT, 0, made)
        client_data = self._client_data("webauthn.create", asked)
        response = {"clientDataJSON": client_data, "attestationObject": AttestationObject.create("none", data, {})}
        return self._answer(response)

    def get(self, options: str) -> str:
        """Return the answer to the options that ask for a passkey."""
        client_data = self._client_data("webauthn.get", json.loads(options))
        data = AuthenticatorData.create(sha256(self.host.encode()), self.flags, 0)
        signature = self._key.sign(data + client_data.hash, ec.ECDSA(SHA256()))
        response = {"clientDataJSON": client_data, "authenticatorData": data, "signature": signature}
        return self._answer(response | {"userHandle": websafe_decode(self.user_handle)})

    def _client_data(self, kind: str, asked: Any) -> CollectedClientData:
        return CollectedClientData.create(kind, asked["challenge"], self.origin)

    def _answer(self, response: dict[str, bytes]) -> str:
        encoded = {name: websafe_encode(value) for name, value in response.items()}
        number = websafe_encode(self.credential_id)
        return json.dumps({"id": number, "rawId": number, "type": "public-key", "response": encoded})
