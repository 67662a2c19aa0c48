"""A sweep that finds nothing costs little."""


async def test_a_sweep_that_finds_nothing_is_one_request_and_one_commit(labels, move_clock):
    await labels.settle()
    await move_clock(900)
    await labels.sync()
    assert labels.remote.calls == {"changes": 1}
    written = "SELECT xmin::text::bigint FROM {} WHERE {}"
    commits = {
        await labels.one(written.format("cursors", "kind = 'live'")),
        await labels.one(written.format("mailboxes", "true")),
        await labels.one(written.format("work", "kind = 'sync'")),
    }
    assert len(commits) == 1


async def test_labels_are_read_again_after_an_hour(labels, move_clock):
    await labels.settle()
    await move_clock(3600)
    await labels.sync()
    assert labels.remote.calls == {"changes": 1, "folders": 1}


async def test_folders_are_read_with_each_sweep(folders, move_clock):
    await folders.settle()
    await move_clock(900)
    await folders.sync()
    assert folders.remote.calls["folders"] == 1


async def test_a_cursor_of_an_idle_sweep_is_not_written_over_a_later_one(folders, move_clock):
    """A feed without changes is committed with the first page that follows, and with no later one."""
    await folders.settle()
    await move_clock(900)
    folders.remote.deliver("archive")
    await folders.sync()
    await folders.assert_mirrors()
    values = await folders.rows("SELECT scope, value FROM cursors WHERE kind = 'live' ORDER BY scope")
    await folders.sync()
    assert values == await folders.rows("SELECT scope, value FROM cursors WHERE kind = 'live' ORDER BY scope")
