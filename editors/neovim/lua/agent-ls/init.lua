--- Sessions of coding agents in Neovim, through the built-in LSP client.
--- This is the small core that works today: start the server, list, read and
--- follow. Neovim 0.10 or newer.
local M = {}

---@class agent-ls.Options
---@field cmd? string[] command of the server; default { "agent-ls", "serve", "--stdio" }
---@field on_update? fun(update: table) called with each session/update

---Starts the server for the current directory, or gives the running one.
---@param opts? agent-ls.Options
---@return integer client_id
function M.start(opts)
  opts = opts or {}
  return assert(vim.lsp.start({
    name = "agent-ls",
    cmd = opts.cmd or { "agent-ls", "serve", "--stdio" },
    root_dir = vim.fn.getcwd(),
    handlers = {
      ["session/update"] = function(_, update)
        if opts.on_update then
          opts.on_update(update)
        end
      end,
    },
  }, { attach = false }))
end

---Sends a request of docs/protocol.md and waits for its answer.
---@param client_id integer
---@param method string
---@param params table
---@return table result
function M.request(client_id, method, params)
  local client = assert(vim.lsp.get_client_by_id(client_id), "agent-ls does not run")
  local answer, err
  -- Neovim 0.11 made client functions methods.
  local function done(e, result)
    err, answer = e, result
  end
  if vim.fn.has("nvim-0.11") == 1 then
    client:request(method, params, done)
  else
    client.request(method, params, done)
  end
  vim.wait(10000, function()
    return answer ~= nil or err ~= nil
  end, 5)
  if err then
    error(("%s: %s"):format(method, err.message), 0)
  end
  return assert(answer, method .. ": no answer")
end

return M
