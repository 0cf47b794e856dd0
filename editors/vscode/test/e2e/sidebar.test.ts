import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { ClaudeSession, Writer } from "./agent";
import { Editor, root, until } from "./editor";

describe("the sidebar", { timeout: 300_000 }, () => {
  const editor = new Editor();
  const writer = new Writer(`${root}/test/e2e/writer.mjs`);
  const first = new ClaudeSession(writer, editor.home, editor.workspace, undefined, Date.now() - 3_600_000);
  const other = new ClaudeSession(writer, editor.home, `${editor.base}/elsewhere`);

  before(async () => {
    await first.write(first.user("Why is the list of orders slow?"), first.assistant("One query for each row."));
    await other.write(other.user("A question from another place"), other.assistant("An answer."));
    await editor.start();
    await editor.sidebar();
  });
  after(async () => {
    writer.stop();
    await editor.stop();
  });
  afterEach(async (t) => {
    await editor.shot(`sidebar-${t.name.replace(/\W+/g, "-")}`);
  });

  it("lists the sessions of the workspace, and no others", async () => {
    await editor.rows("Why is the list of orders slow?").waitFor();
    assert.equal(await editor.rows("A question from another place").count(), 0);
  });

  it("shows a session that another process begins, and follows it", async () => {
    const fresh = new ClaudeSession(writer, editor.home, editor.workspace);
    await fresh.write(fresh.user("Add a test for the cache"));
    await editor.rows("Add a test for the cache").waitFor();
    await fresh.write(`${JSON.stringify({ type: "custom-title", customTitle: "Cache tests", sessionId: fresh.id })}\n`);
    await editor.rows("Cache tests").waitFor();
    assert.equal(await editor.rows("Add a test for the cache").count(), 0);
    const names = await editor.rows(/Cache tests|Why is/).allTextContents();
    assert.match(names[0] ?? "", /Cache tests/, "the newest session stands first");
    // The older session becomes the newest when it is written to.
    const again = new ClaudeSession(writer, editor.home, editor.workspace, first.id);
    await again.write(again.user("And with an index?"));
    await until("the order follows the activity", async () => ((await editor.rows(/Cache tests|Why is/).first().textContent()) ?? "").includes('Why is'));
  });

  it("filters as one types, and gives back what was there", async () => {
    await editor.command("Agent Sessions: Filter Sessions");
    await editor.quick().input.fill("cache");
    await until("one row is left", async () => (await editor.rows(/Cache tests|Why is/).count()) === 1);
    await editor.page.keyboard.press("Escape");
    await until("both rows are back", async () => (await editor.rows(/Cache tests|Why is/).count()) === 2);
  });

  it("shows other directories on demand", async () => {
    await editor.command("Agent Sessions: Show Other Directories");
    await editor.rows("A question from another place").waitFor();
    await editor.command("Agent Sessions: Hide Other Directories");
    await until("they are gone", async () => (await editor.rows("A question from another place").count()) === 0);
  });
});
