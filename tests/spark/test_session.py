"""`pn.spark()`, the Java under it, and what is said of sessions that users bring."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import panes as pn
from panes.errors import QueryError
from panes.runners.spark import check
from panes.runners.spark.check import SparkSettingWarning, check_session
from panes.runners.spark.java import Java, class_archive_options, find_java, installed_home, spark_home
from panes.runners.spark.session import CHANGELOG, LOG, ROCKSDB, SHUFFLE_PARTITIONS, STATE_STORE
from panes.testing import micro_batches

ROWS = pa.table(
    {
        "ts": pa.array([i * 1_000_000 for i in range(60)], pa.timestamp("us", "UTC")),
        "k": pa.array(["a", "b", None] * 20),
        "v": pa.array(range(60), pa.int64()),
    }
)


# What a session is


def test_the_session_is_quiet_and_local(spark: Any) -> None:
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get(SHUFFLE_PARTITIONS) == "2"
    assert Path(spark.conf.get(LOG)).is_file()


def test_every_port_is_on_loopback(spark: Any) -> None:
    """Nothing of the session answers on another address of this machine."""
    listening = _listening(spark.sparkContext._gateway.proc.pid)
    if listening is None:
        pytest.skip("needs /proc")
    assert listening
    assert {address for address in listening if not address.startswith(("127.", "::1", "::ffff:127."))} == set()


def _listening(pid: int) -> list[str] | None:
    """Addresses on which a process listens."""
    if not Path("/proc/net/tcp").exists():
        return None
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:")}
    found = []
    for table, family, size in (("tcp", socket.AF_INET, 8), ("tcp6", socket.AF_INET6, 32)):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                words = bytes.fromhex(fields[1].split(":")[0].rjust(size, "0"))
                packed = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
                found.append(socket.inet_ntop(family, packed))
    return found


def test_a_running_session_is_given_back_with_new_settings(spark: Any) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    try:
        again = pn.spark(settings={"spark.sql.ansi.enabled": False})
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.ansi.enabled") == "false"
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_a_setting_that_needs_a_new_session_is_refused(spark: Any) -> None:
    with pytest.raises(QueryError, match=r"spark\.driver\.memory can't be changed in the session that is running"):
        pn.spark(settings={"spark.driver.memory": "3g"})


# Java


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


def test_no_java_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "apt-get").write_text("")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(QueryError, match=r"Java 17 or newer.*sudo apt-get install -y openjdk-17-jre-headless"):
        find_java()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_old_java_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version).parents[1]))
    with pytest.raises(QueryError, match=f"is Java {version}"):
        find_java()


def test_a_wrong_java_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(QueryError, match=r"JAVA_HOME is '.*gone', which has no bin/java"):
        find_java()


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_402", 8)])
def test_the_major_version_of_java_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: int
) -> None:
    assert Java(Path("java"), version).major == major


def test_a_machine_without_java_gets_no_stack_of_spark(tmp_path: Path) -> None:
    """In a process of its own: the error is Panes', and comes before anything of Spark is started."""
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "import panes as pn; pn.spark()"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "panes.errors.QueryError: Spark needs Java 17 or newer" in done.stderr
    assert "Py4J" not in done.stderr


# The archive of classes


@pytest.fixture
def archive(tmp_path: Path) -> Any:
    """Options for a JVM, with a cache folder of their own."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core_2.13.jar").write_text("")
    java = Java(tmp_path / "java", "17.0.1")

    def options(version: str = "4.3.0", used: Java = java) -> list[str]:
        return class_archive_options(used, tmp_path / "spark", version, folder=tmp_path / "cache")

    return options


def written(option: str, *, finished: bool = True) -> Path:
    """What the JVM does at its end."""
    path = Path(option.partition("=")[2])
    path.write_bytes((b"\xa8\xab\x0b\xf0" if finished else b"\0\0\0\0") + b"classes")
    return path


def test_one_session_records_and_the_next_ones_use_it(archive: Any) -> None:
    first = archive()
    assert first[0].startswith("-XX:ArchiveClassesAtExit=")
    assert archive() == []  # someone records already
    part = written(first[0])
    third = archive()
    assert third[0].startswith("-XX:SharedArchiveFile=")
    assert Path(third[0].partition("=")[2]).read_bytes().endswith(b"classes")
    assert not part.exists()
    assert archive() == third


def test_half_an_archive_is_not_used(archive: Any) -> None:
    written(archive()[0], finished=False)
    assert archive() == []


def test_a_dead_recorder_is_replaced(archive: Any, tmp_path: Path) -> None:
    archive()
    (mark,) = (tmp_path / "cache").glob("*.recording")
    long_ago = time.time() - 7200
    os.utime(mark, (long_ago, long_ago))
    assert archive()[0].startswith("-XX:ArchiveClassesAtExit=")


def test_other_javas_and_sparks_have_archives_of_their_own(archive: Any, tmp_path: Path) -> None:
    written(archive()[0])
    assert archive()[0].startswith("-XX:SharedArchiveFile=")
    assert archive(used=Java(tmp_path / "java", "21.0.1"))[0].startswith("-XX:ArchiveClassesAtExit=")
    assert archive(version="4.3.1")[0].startswith("-XX:ArchiveClassesAtExit=")


def test_without_a_place_to_write_there_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "jars").mkdir()
    assert class_archive_options(Java(tmp_path, "17"), tmp_path, "4.3.0", folder=tmp_path / "file" / "no") == []


# The folder that Spark is started from


@pytest.mark.skipif("SPARK_HOME" in os.environ, reason="SPARK_HOME is set, and left alone")
def test_workers_import_pyspark_as_it_is_installed(spark: Any) -> None:
    def where(rows: Any) -> Any:
        import pyspark

        for frame in rows:
            yield frame.assign(place=pyspark.__file__)

    (row,) = spark.range(1, numPartitions=1).mapInPandas(where, "id long, place string").collect()
    assert ".zip" not in row.place


def test_the_folder_has_the_programs_of_spark_and_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for _ in range(2):
        home = installed_home(sys.executable, folder=tmp_path)
        assert home.parent == tmp_path
        assert (home / "bin" / "spark-submit").is_file()
        assert list((home / "jars").glob("spark-core*.jar"))
        assert {path.name for path in home.iterdir()} == {"bin", "jars"}
        # as if the environment had been removed and made again
        (home / "bin").unlink()
        (home / "bin").symlink_to(tmp_path / "gone")


def test_other_pythons_and_homes_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "file").write_text("")
    own = installed_home(None, folder=tmp_path)
    assert own.parent != tmp_path
    assert installed_home(sys.executable, "python3", folder=tmp_path) == own
    assert installed_home(sys.executable, folder=tmp_path / "file" / "no") == own
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "theirs"))
    assert installed_home(sys.executable, folder=tmp_path) == tmp_path / "theirs"
    with spark_home(tmp_path / "ours"):
        assert os.environ["SPARK_HOME"] == str(tmp_path / "ours")
    assert os.environ["SPARK_HOME"] == str(tmp_path / "theirs")


# Sessions that users bring


@pytest.fixture
def theirs(spark: Any) -> Any:
    """A session with settings of its own that fit."""
    session = spark.newSession()
    for name, value in {STATE_STORE: ROCKSDB, SHUFFLE_PARTITIONS: "2", CHANGELOG: "true"}.items():
        session.conf.set(name, value)
    return session


def test_a_session_that_fits_is_not_complained_about(theirs: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_session(theirs)


def test_the_state_store_is_named(theirs: Any) -> None:
    theirs.conf.set(STATE_STORE, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    frame = micro_batches(theirs, [ROWS])
    query = pn.stream(frame, time="ts").window(w=pn.tumbling("10 s")).agg(n="count(*)")
    with pytest.raises(QueryError, match=rf'providerClass is .*HDFS.*spark\.conf\.set\("{STATE_STORE}", "{ROCKSDB}"\)'):
        query.to_spark()


def test_too_many_partitions_are_a_warning(theirs: Any) -> None:
    theirs.conf.set(SHUFFLE_PARTITIONS, "200")
    with pytest.warns(SparkSettingWarning, match=r'spark\.conf\.set\("spark\.sql\.shuffle\.partitions", "2"\)'):
        check_session(theirs, key_groups=16)


def test_no_changelog_is_a_warning(theirs: Any) -> None:
    theirs.conf.set(CHANGELOG, "false")
    with pytest.warns(SparkSettingWarning, match=CHANGELOG):
        check_session(theirs)


def test_a_python_without_panes_is_named(theirs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'panes'\" >&2; exit 1\n")
    other.chmod(0o755)
    monkeypatch.setattr(theirs.sparkContext, "pythonExec", str(other))
    with pytest.raises(QueryError, match=r"can't be imported: ModuleNotFoundError.*PYSPARK_PYTHON"):
        check_session(theirs)


def test_pandas_3_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas

    monkeypatch.setattr(pandas, "__version__", "3.0.1")
    check._check_libraries.cache_clear()
    with pytest.raises(QueryError, match=r"pandas 3\.0\.1 is installed.*pip install 'pandas<3'"):
        check._check_libraries()


def test_settings_of_users_do_not_change_results(theirs: Any, run_stream: Any) -> None:
    settings = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.streaming.stateStore.encodingFormat": "avro",
    }
    for name, value in settings.items():
        theirs.conf.set(name, value)

    def query(data: Any) -> Any:
        stream = pn.stream(data, time="ts", key="k").where("v <> 7")
        return stream.window(w=pn.tumbling("10 s"), r=pn.tumbling(pn.rows(5))).agg(n="count(*)", s="sum(v)")

    got = run_stream(query(micro_batches(theirs, [ROWS.slice(0, 30), ROWS.slice(30)])).to_spark())
    right = query(ROWS).to_arrow()
    due = [r for r in right.to_pylist() if r["window_end"] is None or r["window_end"].second % 60 <= 50]
    due = [r for r in due if r["window_end"] is None or r["window_end"].minute == 0]
    shown = sorted(str(row) for row in got.cast(right.schema).to_pylist())
    assert shown == sorted(str(row) for row in due)


@pytest.fixture
def set_here(spark: Any) -> Any:
    """Sets settings of the session that is active, which is the one that Spark reads texts of types with."""
    before: dict[str, str | None] = {}

    def set_it(name: str, value: str) -> None:
        before[name] = spark.conf.get(name, None)
        spark.conf.set(name, value)

    yield set_it
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def test_times_without_a_zone_stay_as_they_are_in_a_session_with_another_zone(set_here: Any) -> None:
    """Times of tables were taken for times in New York, and one of them is none there."""
    set_here("spark.sql.session.timeZone", "America/New_York")
    times = pa.array([i * 3_600_000_000 for i in range(12)], pa.timestamp("us")).cast(pa.int64())
    at_a_gap = pc.add(times, 1_710_028_800_000_000).cast(pa.timestamp("us"))  # 2024-03-10
    rows = pa.table({"t": at_a_gap, "v": pa.array(range(12), pa.int64())})
    query = pn.stream(rows, time="t").window(pn.tumbling("3 h")).agg(s="sum(v)", first="first(t)")
    expected = query.to_arrow()
    for strategy in (None, "key_groups"):
        found = query.to_spark(strategy=strategy).toArrow().sort_by("window_start")
        assert found.select(["window_start", "s", "first"]).to_pylist() == (
            expected.select(["window_start", "s", "first"]).to_pylist()
        )


def test_a_stream_can_be_built_where_timestamp_means_one_without_a_zone(spark: Any, set_here: Any) -> None:
    set_here("spark.sql.timestampType", "TIMESTAMP_NTZ")
    stream = pn.stream(micro_batches(spark, [ROWS]), time="ts", key="k", watermark="1 s")
    for strategy in ("key_groups", "native"):
        frame = stream.window(pn.tumbling("10 s")).agg(n="count(*)").to_spark(strategy=strategy)
        assert frame.isStreaming
