-- Run by .ci/test-neovim.sh in a real Neovim: arguments are the server, a
-- workspace with one session, and the transcript of that session.
local server, workspace, transcript = arg[1], arg[2], arg[3]
vim.opt.runtimepath:prepend(vim.fs.dirname(debug.getinfo(1, "S").source:sub(2)))
vim.fn.chdir(workspace)
local agent = require("agent-ls")
local got = {}
local client = agent.start({
  cmd = { server, "serve", "--stdio" },
  on_update = function(update)
    vim.list_extend(got, update.entries)
  end,
})
local list
assert(vim.wait(10000, function()
  list = agent.request(client, "session/list", { cwd = workspace })
  return #list.sessions == 1
end, 20), "the session is not listed")
local id = list.sessions[1].sessionId
assert(list.sessions[1].title == "hello from the agent", vim.inspect(list))
local page = agent.request(client, "session/read", { sessionId = id })
assert(page.entries[1].content[1].text == "hello from the agent", vim.inspect(page))
agent.request(client, "session/subscribe", { sessionId = id, after = page.entries[1].id })
-- Another process writes.
vim.fn.system({ "sh", "-c", 'printf \'{"type":"message","role":"assistant","content":"live","ts":1787926831}\\n\' >> "$1"', "sh", transcript })
assert(vim.wait(10000, function()
  return #got == 1
end, 5), "no update came")
assert(got[1].content[1].text == "live", vim.inspect(got))
agent.request(client, "session/append", { sessionId = id, messages = { { role = "user", content = "from Neovim" } } })
assert(table.concat(vim.fn.readfile(transcript), "\n"):find("from Neovim", 1, true), "the append is not in the file")
local ok, err = pcall(agent.request, client, "session/read", { sessionId = "nothing-like-it" })
assert(not ok and tostring(err):find("not found", 1, true), tostring(err))
print("ok " .. tostring(vim.version()))
