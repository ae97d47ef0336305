"""The `.env` file: our block, the user's lines."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from dotenv import dotenv_values

from pramaan_pipelines.local.envfile import (
    BEGIN,
    END,
    read_env,
    remember_env,
    remove_env,
    write_env,
)
from pramaan_pipelines.local.errors import LocalStackError


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return tmp_path / ".env"


def test_keeps_the_lines_of_the_user(env: Path) -> None:
    before = "# mine\nexport A='1 # 2'\n\nB=\"two\nlines\"\nnot a line\nLAST=x"
    env.write_text(before)
    env.chmod(0o644)
    write_env(env, {"K": "v"})
    write_env(env, {"K": "w", "L": "a b$c"})
    assert env.read_text() == f"{before}\n{BEGIN}\nK=w\nL='a b$c'\n{END}\n"
    assert env.stat().st_mode & 0o777 == 0o600
    assert list(env.parent.iterdir()) == [env]
    expected = {"A": "1 # 2", "B": "two\nlines", "LAST": "x", "K": "w", "L": "a b$c"}
    assert {k: v for k, v in dotenv_values(env).items() if k in expected} == expected


def test_block_keeps_its_place_and_other_writers_keys(env: Path) -> None:
    env.write_text(f"A=1\n\n{BEGIN}\nQ=queue\nOLD=1\n{END}\n\nZ=2\n")
    write_env(env, {"K": "v"}, forget=["OLD"])
    assert env.read_text() == f"A=1\n\n{BEGIN}\nQ=queue\nK=v\n{END}\n\nZ=2\n"
    assert read_env(env).own == {"A": "1", "Z": "2"}
    assert read_env(env).managed == {"Q": "queue", "K": "v"}


def test_a_users_value_of_our_key_is_set_aside_not_dropped(env: Path) -> None:
    env.write_text("K=theirs\nSAME=v\nEMPTY=\nFORGOTTEN=stays\n")
    write_env(env, {"K": "ours", "SAME": "v", "EMPTY": "e"}, forget=["FORGOTTEN"])
    assert env.read_text() == (
        f"# K=theirs\nFORGOTTEN=stays\n{BEGIN}\nK=ours\nSAME=v\nEMPTY=e\n{END}\n"
    )


def test_follows_a_link_and_keeps_it(env: Path, tmp_path: Path) -> None:
    target = tmp_path / "real"
    target.write_text("A=1\n")
    env.symlink_to(target)
    write_env(env, {"K": "v"})
    assert env.is_symlink()
    assert "K=v" in target.read_text()


def test_two_writers_lose_nothing(env: Path) -> None:
    keys = [f"K{number}" for number in range(12)]
    threads = [threading.Thread(target=write_env, args=(env, {key: "v"})) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(read_env(env).managed) == set(keys)


@pytest.mark.parametrize("value", ["it's", "two\nlines", "back\\slash"])
def test_refuses_what_it_cannot_hold(env: Path, value: str) -> None:
    with pytest.raises(LocalStackError, match="value of K"):
        write_env(env, {"K": value})
    assert not env.exists()


@pytest.mark.parametrize(
    ("change", "removed"),
    [
        (lambda text: text, True),
        (lambda text: text + "\n", False),
        (lambda text: text.replace("K=v", "K=w"), False),
        (lambda text: f"{text}MINE=1\n", False),
    ],
    ids=["as it was left", "a line more", "a value changed", "a line of the user's"],
)
def test_is_removed_only_as_we_left_it(
    env: Path, tmp_path: Path, change: Callable[[str], str], *, removed: bool
) -> None:
    note = tmp_path / "note"
    write_env(env, {"K": "v"})
    remember_env(env, note)
    env.write_text(change(env.read_text()))
    assert remove_env(env, note) is removed
    assert env.exists() is not removed
    assert not note.exists()


def test_with_a_line_of_the_user_s_it_was_never_ours_alone(env: Path, tmp_path: Path) -> None:
    env.write_text("# mine\n")
    write_env(env, {"K": "v"})
    remember_env(env, tmp_path / "note")
    assert not remove_env(env, tmp_path / "note")
    assert env.exists()


def test_a_file_that_we_never_left_stays(env: Path, tmp_path: Path) -> None:
    write_env(env, {"K": "v"})
    assert not remove_env(env, tmp_path / "note")
    assert env.exists()
