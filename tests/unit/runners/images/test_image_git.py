"""The commit of a revision and the files of a commit, from real repositories."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from image_world import Repository

from airflow_snowpack.runners.errors import EntryCancelled
from airflow_snowpack.runners.images import ImageBuild, RepositoryUnavailable, RevisionNotFound, git
from airflow_snowpack.runners.images.commands import Commands
from airflow_snowpack.runners.images.errors import BuilderUnavailable
from airflow_snowpack.runners.images.git import check_out, resolve

FILES = {"Dockerfile": "FROM scratch\n", "app/score.py": "print('é')\r\n"}


def test_branches_tags_and_references_are_resolved_to_commits(repository: Repository, scratch: Path) -> None:
    first = repository.commit(FILES)
    repository.git("-c", "user.name=T", "-c", "user.email=t@example.com", "tag", "-a", "-m", "first", "v1", "main")
    repository.git("tag", "light", "main")
    repository.git("update-ref", "refs/pull/7/head", first)
    second = repository.commit({**FILES, "more": ""})
    repository.commit(FILES, "feature/main")  # ends like another one
    wanted = {"main": second, "v1": first, "light": first, "refs/tags/v1": first, "refs/pull/7/head": first, "HEAD": second}
    assert {name: resolve(Commands(), ImageBuild(repository.url, name), scratch) for name in wanted} == wanted


def test_a_commit_is_resolved_without_git(scratch: Path) -> None:
    assert resolve(Commands(), ImageBuild("https://unreachable.invalid/score.git", "a" * 40), scratch) == "a" * 40


def test_a_name_that_is_nothing_or_two_things_is_an_error(repository: Repository, scratch: Path) -> None:
    commit = repository.commit(FILES)
    with pytest.raises(RevisionNotFound, match="has neither a branch nor a tag of this name; a commit needs its full hash"):
        resolve(Commands(), ImageBuild(repository.url, commit[:10]), scratch)
    with pytest.raises(RevisionNotFound, match="it has no such reference"):
        resolve(Commands(), ImageBuild(repository.url, "refs/heads/gone"), scratch)
    repository.git("tag", "main", "main")
    assert resolve(Commands(), ImageBuild(repository.url, "main"), scratch) == commit  # both mean the same
    repository.commit({**FILES, "more": ""})
    with pytest.raises(RevisionNotFound, match="it is a branch and a tag; pass refs/heads/main or refs/tags/main"):
        resolve(Commands(), ImageBuild(repository.url, "main"), scratch)


def test_a_repository_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path, scratch: Path) -> None:
    with pytest.raises(
        RepositoryUnavailable,
        match=r"/nothing.git cannot be read: fatal: '.*' does not appear to be",
    ):
        resolve(Commands(), ImageBuild(f"file://{tmp_path}/nothing.git", "main"), scratch)


def test_a_server_that_does_not_answer_is_given_up(scratch: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 3600\n")
    silent.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(silent))
    monkeypatch.setattr(git, "RESOLVE_TIMEOUT", timedelta(milliseconds=300))
    with pytest.raises(RepositoryUnavailable, match=r":score.git cannot be read: git did not end within 0\.3 s\. "):
        resolve(Commands(), ImageBuild("git@example.com:score.git", "main"), scratch)


def test_git_never_prompts_and_ssh_neither(scratch: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$GIT_TERMINAL_PROMPT $@" > {noted}\nexit 1\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RepositoryUnavailable):
        resolve(Commands(), ImageBuild("ssh://git@example.com:2222/score.git", "main"), scratch)
    given = noted.read_text()
    assert given.startswith("0 -o BatchMode=yes -o ConnectTimeout=30")
    assert "git@example.com" in given
    assert "upload-pack '/score.git'" in given


def test_the_files_of_a_commit_are_checked_out_as_they_are(repository: Repository, scratch: Path) -> None:
    commit = repository.commit(FILES)
    repository.commit({"Dockerfile": "FROM other\n"})
    context = check_out(Commands(), ImageBuild(repository.url, commit), scratch)
    found = {str(path.relative_to(context)): path.read_bytes().decode() for path in context.rglob("*") if path.is_file()}
    assert found == FILES


def test_a_repository_with_sha256_hashes_is_read_too(tmp_path: Path, scratch: Path) -> None:
    repository = Repository(tmp_path / "long.git", "sha256")
    commit = repository.commit(FILES)
    assert len(commit) == 64
    source = ImageBuild(repository.url, "main")
    assert resolve(Commands(), source, scratch) == commit
    assert (check_out(Commands(), source.at(commit), scratch) / "Dockerfile").read_text() == FILES["Dockerfile"]


def test_a_server_that_sends_no_single_commits_sends_its_branches(
    repository: Repository, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.commit(FILES)
    repository.commit({"Dockerfile": "FROM other\n"})
    for name, value in {"COUNT": "1", "KEY_0": "protocol.version", "VALUE_0": "0"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    errors: list[str] = []
    context = check_out(Commands(errors.append), ImageBuild(repository.url, commit), scratch)
    assert any("not our ref" in line or "unadvertised object" in line for line in errors)
    assert (context / "Dockerfile").read_text() == FILES["Dockerfile"]


def test_a_commit_that_is_not_there_is_an_error(repository: Repository, scratch: Path) -> None:
    repository.commit(FILES)
    with pytest.raises(RevisionNotFound, match="it has no such commit"):
        check_out(Commands(), ImageBuild(repository.url, "a" * 40), scratch)


def test_the_protocol_ext_runs_nothing(repository: Repository, scratch: Path, tmp_path: Path) -> None:
    """Not even for a source that was made without its checks."""
    source = ImageBuild(repository.url, "main")
    object.__setattr__(source, "remote", f"ext::touch {tmp_path / 'touched'}")
    with pytest.raises(RepositoryUnavailable):
        resolve(Commands(), source, scratch)
    object.__setattr__(source, "remote", f"--upload-pack=touch {tmp_path / 'touched'}")
    with pytest.raises(RepositoryUnavailable):
        resolve(Commands(), source, scratch)
    assert not (tmp_path / "touched").exists()


def test_a_worker_without_git_is_a_worker_that_cannot_build(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BuilderUnavailable, match="'git'"):
        resolve(Commands(), ImageBuild("https://unreachable.invalid/score.git", "main"), scratch)


def test_a_stop_ends_the_program_with_everything_below_it_and_starts_no_other(scratch: Path) -> None:
    commands = Commands(lambda line: commands.stop() if line == "started" else None)
    script = "sleep 3600 & setsid sleep 3600 & echo started; wait"
    with pytest.raises(EntryCancelled):
        commands.run(["sh", "-c", script], scratch)
    with pytest.raises(EntryCancelled):
        commands.run(["touch", "again"], scratch)
    assert not (scratch / "again").exists()
