"""Objects on S3 in few requests, whatever the server can do, and each with its own result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from faulty_proxy import Fault, FaultyProxy, faulty_proxy
from s3_server import BUCKET, access_to, s3_server

from airflow_snowpack.iceberg.s3_objects import MOST_KEYS, S3Objects, s3_objects

LOCATION = f"s3://{BUCKET}/db/t"
NAMES = ["a b%20c#d?e+é.parquet", "e\u0301.parquet", *(f"{number}.parquet" for number in range(60))]
PATHS = [f"{LOCATION}/data/{name}" for name in NAMES]


@pytest.fixture
def proxy() -> Iterator[FaultyProxy]:
    with s3_server() as options, faulty_proxy(access_to(options)["s3.endpoint"]) as running:
        yield running


@pytest.fixture
def objects(proxy: FaultyProxy) -> S3Objects:
    keys = {"s3.access-key-id": "tester", "s3.secret-access-key": "tester", "s3.region": "us-east-1"}
    found = s3_objects(LOCATION, {"s3.endpoint": proxy.url, **keys})
    assert found is not None
    return found


def put(names: Sequence[str], table: str = "t") -> None:
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3 import s3_backends

    for name in names:
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(BUCKET, f"db/{table}/data/{name}", b"12345")


def methods(proxy: FaultyProxy) -> list[str]:
    found = [method for method, _ in proxy.requests]
    proxy.requests.clear()
    return found


def test_a_listing_answers_for_all_paths_by_any_spelling_of_the_scheme(objects: S3Objects, proxy: FaultyProxy) -> None:
    put(NAMES[:-1])
    wanted = [*PATHS, PATHS[0].replace("s3://", "s3a://"), f"{LOCATION}/data/"]

    found = objects.stat(wanted)

    assert found.keys() == {*wanted} - {PATHS[-1], wanted[-1]}
    assert {each.bytes for each in found.values()} == {5}
    assert methods(proxy) == ["GET"]


def test_where_a_short_listing_does_not_reach_each_object_is_requested_and_has_the_same_time(
    objects: S3Objects, proxy: FaultyProxy
) -> None:
    put(NAMES)
    listed = objects.stat(PATHS)
    put([f"0{number:05}" for number in range(MOST_KEYS)])
    methods(proxy)

    assert objects.stat(PATHS) == listed
    assert methods(proxy).count("HEAD") >= len(PATHS) - 2
    assert objects.stat(PATHS[:2]) == {path: listed[path] for path in PATHS[:2]}
    assert methods(proxy) == ["HEAD", "HEAD"], "a listing of two would not be worth it"


def test_a_server_without_deletions_in_bulk_deletes_one_by_one(objects: S3Objects, proxy: FaultyProxy) -> None:
    put(NAMES)
    proxy.fault = lambda method, path: Fault.NOT_IMPLEMENTED if method == "POST" else None

    assert objects.delete(PATHS) == {}

    assert methods(proxy).count("DELETE") == len(PATHS)
    assert objects.stat(PATHS) == {}


def test_a_key_that_xml_cannot_write_is_deleted_and_keeps_no_other_from_it(objects: S3Objects, proxy: FaultyProxy) -> None:
    names = [*NAMES[:3], "a\x01b.parquet", "a\rb.parquet", "end "]
    put([*names, "end"])
    paths = [f"{LOCATION}/data/{name}" for name in names]

    assert objects.delete(paths) == {}

    assert methods(proxy).count("POST") == 1
    assert objects.stat([*paths, f"{LOCATION}/data/end"]).keys() == {f"{LOCATION}/data/end"}


def test_each_object_that_was_not_deleted_is_reported(objects: S3Objects, proxy: FaultyProxy) -> None:
    put(NAMES)
    proxy.fault = lambda method, path: Fault.FORBIDDEN if method == "POST" else None

    assert objects.delete(PATHS).keys() == {*PATHS}
    with pytest.raises(OSError, match="62 objects could not be deleted"):
        objects.delete_folder(LOCATION)
    assert len(objects.stat(PATHS)) == len(PATHS)


@pytest.mark.parametrize("fault", [Fault.NOT_ALL, Fault.PAGE])
def test_an_answer_that_names_none_of_the_objects_has_deleted_none(objects: S3Objects, proxy: FaultyProxy, fault: Fault) -> None:
    put(NAMES)
    proxy.fault = lambda method, path: fault if method == "POST" else None

    assert objects.delete(PATHS).keys() == {*PATHS}
    with pytest.raises(OSError, match="62 objects could not be deleted"):
        objects.delete_folder(LOCATION)


def test_what_is_gone_counts_as_deleted_where_objects_are_deleted_one_by_one(objects: S3Objects, proxy: FaultyProxy) -> None:
    faults = {"POST": Fault.NOT_IMPLEMENTED, "DELETE": Fault.NO_SUCH_KEY}
    proxy.fault = lambda method, path: faults.get(method)

    assert objects.delete(PATHS) == {}


def test_a_listing_that_is_a_page_of_a_proxy_is_an_error_of_the_storage(objects: S3Objects, proxy: FaultyProxy) -> None:
    proxy.fault = lambda method, path: Fault.PAGE
    with pytest.raises(OSError, match="did not answer with a listing"):
        objects.stat(PATHS)


def test_a_folder_goes_with_all_below_it_and_its_neighbour_stays(objects: S3Objects) -> None:
    put(NAMES)
    put(["0.parquet"], "t2")

    assert objects.delete_folder(f"{LOCATION}/")
    assert not objects.delete_folder(LOCATION)
    assert objects.stat([f"{LOCATION}2/data/0.parquet"])


def test_half_of_a_key_is_an_error_of_the_storage() -> None:
    objects = S3Objects({"s3.endpoint": "http://127.0.0.1:9", "s3.access-key-id": "half"})
    with pytest.raises(OSError, match="Partial credentials"):
        objects.stat(PATHS)
    assert objects.delete(PATHS).keys() == {*PATHS}


def test_an_endpoint_without_a_scheme_is_that_of_pyarrow() -> None:
    assert S3Objects({"s3.endpoint": "storage:9000"}).client.meta.endpoint_url == "https://storage:9000"


@pytest.mark.parametrize(
    ("location", "properties"),
    [
        ("file:///lake/db/t", {}),
        ("gs://lake/db/t", {}),
        (LOCATION, {"s3.signer": "S3V4RestSigner"}),
        (LOCATION, {"s3.role-arn": "r"}),
    ],
)
def test_what_only_pyarrow_reaches_is_left_to_it(location: str, properties: dict[str, str]) -> None:
    assert s3_objects(location, properties) is None
