// The messages of docs/protocol.md, section 9. Written by scripts/protocol.mjs
// (npm run protocol); a test compares the two.

export interface Agent {
  agent: string;
  roots: string[];
  append: boolean;
  fork: boolean;
  rename: boolean;
  tree: boolean;
}

export interface AgentLs {
  version: number;
  methods: string[];
  agents: Agent[];
}

export interface AppendParams {
  sessionId: string;
  messages: MessageIn[];
  parentId?: string;
  expectedRevision?: string;
  durability?: string; // sync, batch
  force?: boolean;
}

export interface AppendResult {
  entries: Appended[];
  revision: string;
}

export interface Appended {
  id: string;
  offset: number;
  length: number;
}

export interface BadLine {
  line: number;
  offset: number;
  length: number;
  reason: string;
}

export interface Block {
  type: string;
  text?: string; // text, thinking
  id?: string; // tool_use
  name?: string; // tool_use, tool_result
  input?: unknown; // tool_use
  kind?: string; // tool_use
  locations?: Location[]; // tool_use
  toolUseId?: string; // tool_result
  content?: Block[]; // tool_result
  isError?: boolean; // tool_result
  spilled?: string; // tool_result
  mimeType?: string; // image
  uri?: string; // image
  data?: string; // image
  raw?: string; // unknown
  cut?: Cut;
}

export interface Branch {
  leaf: string;
  forkedAt?: string;
  updatedAt?: string;
  entries: number;
}

export interface Can {
  append: boolean;
  fork: boolean;
  rename: boolean;
  delete: boolean;
  resume: boolean;
}

export interface Capabilities {
  workspace: WorkspaceCapabilities;
  experimental: Experimental;
}

export interface Changed {
  added: Session[];
  updated: Session[];
  removed: string[];
}

export interface Command {
  argv: string[];
  cwd?: string;
  env?: Record<string, string>;
}

export interface Configuration {
  stores?: Record<string, StoreConfig>;
  watch?: WatchConfig;
  prune?: PruneConfig;
  log?: LogConfig;
}

export interface ConfigurationParams {
  settings: unknown; // Settings
}

export interface Cost {
  bytes: number;
  lines: number;
  longestLine: number;
  skipped?: number;
  from?: number;
}

export interface Counts {
  physical: number;
  effective?: number;
}

export interface Cut {
  bytes: number;
}

export interface Dangling {
  entryId: string;
  toolUseIds: string[];
  dropped: number;
}

export interface DeleteParams {
  sessionId: string;
  permanently?: boolean;
  force?: boolean;
}

export interface DeleteResult {
  trashed?: string;
}

export interface DiagnoseResult {
  findings: Finding[];
  actions: string[];
}

export interface Entry {
  id: string;
  parentId?: string;
  line: number;
  offset: number;
  length: number;
  timestamp?: string;
  role?: string;
  kind: string;
  type?: string; // the store's own word
  content?: Block[];
  model?: string;
  usage?: Usage;
  sidechain?: boolean;
  effective: boolean;
  excluded?: string;
  raw?: string;
}

export interface Experimental {
  agentLs: AgentLs;
}

export interface Filters {
  cwd?: string;
  scope?: string; // exact, subtree, repository
  agents?: string[];
  query?: string;
  status?: string[];
  archived?: string; // exclude, include, only
  includeSubagents?: boolean;
  includeEmpty?: boolean;
  includeProgrammatic?: boolean; // default true
  exclude?: string[];
}

export interface Finding {
  code: string;
  severity: string;
  line: number;
  offset: number;
  length: number;
  entryId?: string;
  message: string;
  action?: string;
}

export interface FoldersEvent {
  added: WorkspaceFolder[];
  removed: WorkspaceFolder[];
}

export interface FoldersParams {
  event: FoldersEvent;
}

export interface ForkParams {
  sessionId: string;
  at?: string;
  agent?: string;
  cwd?: string;
  title?: string;
}

export interface ForkReport {
  entries: number;
  lost?: string[];
}

export interface ForkResult {
  session: Session;
  report: ForkReport;
}

export interface Hit {
  session: Session;
  entryId: string;
  line: number;
  offset: number;
  role: string;
  timestamp?: string;
  snippet: string;
  ranges: Range[];
}

export interface InitializeParams {
  processId?: number;
  rootUri?: string;
  rootPath?: string;
  workspaceFolders: WorkspaceFolder[];
  initializationOptions: unknown; // Configuration
  trace: string;
}

export interface InitializeResult {
  capabilities: Capabilities;
  serverInfo: ServerInfo;
}

export interface Kept {
  sessionId: string;
  why: string;
}

export interface ListParams extends Filters {
  sort?: string; // updated, created, size, title
  limit?: number;
  cursor?: string;
  partialResultToken?: unknown;
  workDoneToken?: unknown;
}

export interface ListResult {
  sessions: Session[];
  nextCursor?: string;
  total: number;
}

export interface Location {
  path: string;
  line?: number;
}

export interface LogConfig {
  level?: string;
}

export interface MarkReadParams {
  sessionId: string;
  entry?: string;
}

export interface Message {
  role: string;
  content: Block[];
  model?: string;
  usage?: Usage;
  timestamp?: string;
  entryIds?: string[];
}

export interface MessageIn {
  role: string;
  content: unknown;
  model?: string;
  usage?: Usage;
  timestamp?: string;
}

export interface NewParams {
  agent: string;
  cwd: string;
  model?: string;
  title?: string;
}

export interface Progress {
  token: unknown;
  value: unknown;
}

export interface PruneConfig {
  olderThanDays?: number;
  basis?: string;
}

export interface PruneParams {
  olderThanDays?: number; // default 30
  basis?: string; // activity, created
  cwd?: string;
  agents?: string[];
  dryRun?: boolean; // default true
}

export interface PruneResult {
  sessions: Session[];
  bytes: number;
  kept: Kept[];
}

export interface Range {
  start: number;
  end: number;
}

export interface ReadBlockResult {
  entry: string;
  block: number;
  type: string;
  text: string;
  range: Range;
  bytes: number;
}

export interface ReadParams {
  sessionId?: string;
  uri?: string;
  view?: string; // effective, physical
  leaf?: string;
  after?: string;
  before?: string;
  limit?: number;
  raw?: boolean;
  maxBlock?: number;
  entry?: string;
  block?: number;
  range?: Range;
}

export interface ReadResult {
  session: Session;
  entries: Entry[];
  hasBefore: boolean;
  hasAfter: boolean;
  leaf?: string;
  branches: Branch[];
  report: Report;
  revision: string;
}

export interface Reminder {
  text: string;
  lastMessageAt: string;
}

export interface RenameParams {
  sessionId: string;
  title?: string;
}

export interface RepairParams {
  sessionId: string;
  dryRun?: boolean; // default true
}

export interface ReplaceParams {
  sessionId: string;
  reason: string;
  messages: MessageIn[];
  expectedRevision?: string;
  force?: boolean;
}

export interface Report {
  badLines: BadLine[];
  dangling?: Dangling;
  missingParent?: string[];
  cycle?: string[];
  duplicateIds?: string[];
  tornTail?: BadLine;
  copiedFromParent?: number;
  spilled?: string[];
  findings?: Finding[];
  cost?: Cost;
}

export interface ResumeParams {
  sessionId: string;
  leaf?: string;
  subscribe?: boolean; // default true
  maxBlock?: number;
}

export interface ResumeResult {
  messages?: Message[];
  session: Session;
  report: Report;
  reminder?: Reminder;
  command?: Command;
  writer?: Writer;
  revision: string;
}

export interface SearchParams extends Filters {
  mode?: string; // text, regex
  caseSensitive?: boolean;
  roles?: string[];
  since?: string;
  until?: string;
  limit?: number;
  cursor?: string;
  partialResultToken?: unknown;
  workDoneToken?: unknown;
}

export interface SearchResult {
  hits: Hit[];
  nextCursor?: string;
  searched?: Searched;
}

export interface Searched {
  sessions: number;
  bytes: number;
  failed?: number;
}

export interface ServerInfo {
  name: string;
  version: string;
}

export interface Session {
  sessionId: string;
  agent: string;
  nativeId: string;
  uri: string;
  cwd?: string;
  cwdMissing?: boolean;
  title?: string;
  titleSource: string;
  firstPrompt?: string;
  lastPrompt?: string;
  model?: string;
  gitBranch?: string;
  createdAt?: string;
  updatedAt?: string;
  status: string;
  counts?: Counts;
  size: number;
  kind: string;
  parentSessionId?: string;
  parentToolUseId?: string;
  archived?: boolean;
  tags?: string[];
  unread?: boolean;
  programmatic?: boolean;
  empty?: boolean;
  can: Can;
  whyNot?: Record<string, string>;
  revision?: string;
  problems?: number;
}

export interface SessionParams {
  sessionId: string;
}

export interface SessionResult {
  session: Session;
}

export interface Settings {
  agentLs: unknown; // Configuration
}

export interface StoreConfig {
  roots?: string[];
  enabled?: boolean;
}

export interface SubscribeParams {
  sessionId: string;
  after?: string;
  maxBlock?: number;
}

export interface SubscribeResult {
  revision: string;
}

export interface TagParams {
  sessionId: string;
  tags: string[];
}

export interface Update {
  sessionId: string;
  revision: string;
  session: Session;
  entries: Entry[];
  reset?: string;
}

export interface Usage {
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
  cost?: number;
}

export interface WatchConfig {
  poll?: string;
  debounceMs?: number;
}

export interface WorkDone {
  kind: string;
  title?: string;
  message?: string;
}

export interface WorkspaceCapabilities {
  workspaceFolders: WorkspaceFolders;
}

export interface WorkspaceFolder {
  uri: string;
  name: string;
}

export interface WorkspaceFolders {
  supported: boolean;
  changeNotifications: boolean;
}

export interface Writer {
  pid?: number;
  since?: string;
}
