import type * as p from "./protocol";

/** The requests that this extension makes: method to parameters and result. */
export interface Requests {
  "session/list": [p.ListParams, p.ListResult];
  "session/read": [p.ReadParams, p.ReadResult];
  "session/resume": [p.ResumeParams, p.ResumeResult];
  "session/new": [p.NewParams, p.SessionResult];
  "session/append": [p.AppendParams, p.AppendResult];
  "session/fork": [p.ForkParams, p.ForkResult];
  "session/rename": [p.RenameParams, p.SessionResult];
  "session/tag": [p.TagParams, p.SessionResult];
  "session/archive": [p.SessionParams, p.SessionResult];
  "session/unarchive": [p.SessionParams, p.SessionResult];
  "session/markRead": [p.MarkReadParams, p.SessionResult];
  "session/delete": [p.DeleteParams, p.DeleteResult];
  "session/diagnose": [p.SessionParams, p.DiagnoseResult];
  "session/repair": [p.RepairParams, p.DiagnoseResult];
  "session/subscribe": [p.SubscribeParams, p.SubscribeResult];
  "session/unsubscribe": [p.SessionParams, object];
  "session/watch": [p.Filters, object];
}

export type Method = keyof Requests;
export type Params<M extends Method> = Requests[M][0];
export type Result<M extends Method> = Requests[M][1];

/** Error codes of docs/protocol.md, section 8, that are handled by name. */
export const ErrorCode = {
  cancelled: -32800,
  modified: -32801,
  notFound: -32011,
  unsupported: -32012,
  locked: -32013,
} as const;
