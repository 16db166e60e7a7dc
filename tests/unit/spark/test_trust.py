"""The Java from PyPI trusts what the machine trusts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bounded import output_of
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from airflow_snowpack.spark.java import PASSWORD, launcher_home, machine_bundle, trust_store


def authority(name: str) -> bytes:
    """A certificate authority of its own, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    file = tmp_path / "bundle.crt"
    file.write_bytes(authority("Proxy of the company") + authority("Some other one"))
    return file


def test_every_certificate_of_the_bundle_is_in_the_store(bundle: Path, tmp_path: Path) -> None:
    store = trust_store(bundle, tmp_path / "cache")
    assert store is not None
    entries = load_pkcs12(store.read_bytes(), PASSWORD.encode()).additional_certs
    names = {entry.certificate.subject.rfc4514_string() for entry in entries}
    assert names == {"CN=Proxy of the company", "CN=Some other one"}
    assert len({entry.friendly_name for entry in entries}) == 2


def test_the_same_bundle_is_converted_once_and_a_changed_one_again(bundle: Path, tmp_path: Path) -> None:
    first = trust_store(bundle, tmp_path)
    assert trust_store(bundle, tmp_path) == first
    bundle.write_bytes(bundle.read_bytes() + authority("A third one"))
    assert trust_store(bundle, tmp_path) != first


def test_a_broken_certificate_does_not_cost_the_others(bundle: Path, tmp_path: Path) -> None:
    bundle.write_bytes(b"-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n" + bundle.read_bytes())
    store = trust_store(bundle, tmp_path)
    assert store is not None
    assert len(load_pkcs12(store.read_bytes(), PASSWORD.encode()).additional_certs) == 2


def test_a_file_without_certificates_makes_no_store(tmp_path: Path) -> None:
    empty = tmp_path / "empty.crt"
    empty.touch()
    assert trust_store(empty, tmp_path) is None


def test_the_bundle_that_the_environment_names_comes_first(bundle: Path) -> None:
    assert machine_bundle({"SSL_CERT_FILE": str(bundle)}) == bundle


def test_the_launcher_names_the_store_before_what_the_caller_says(bundle: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "java").write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    (real / "bin" / "java").chmod(0o755)
    cache = tmp_path / "a cache"
    home = launcher_home(real, cache, bundle)
    said = output_of(home / "bin" / "java", "-version")
    store = trust_store(bundle, cache)
    assert said.splitlines() == [
        f"-Djavax.net.ssl.trustStore={store}",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
        "-version",
    ]
