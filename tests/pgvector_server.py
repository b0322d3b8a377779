"""A PostgreSQL server with pgvector, for tests."""

import functools
import tempfile

import pytest


@functools.cache
def postgres():
    """The address of a server with pgvector that runs until the tests end."""
    pgserver, psycopg = pytest.importorskip("pgserver"), pytest.importorskip("psycopg")
    server = pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    address = server.get_uri().replace("postgres:@", "postgres@")
    with psycopg.connect(address) as connection:
        connection.execute("CREATE EXTENSION vector")
    return address
