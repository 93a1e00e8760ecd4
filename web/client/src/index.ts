/**
 * A client of Portolan's native protocol (docs/protocol.md), for browsers and for any runtime with a WebSocket.
 *
 * `Connection` keeps one WebSocket alive; `protocol.ts` is generated from the program's own types.
 */
export { Connection, type ConnectionOptions, type LinkState, type Socket } from "./connection.ts";
export { Lost, Refused } from "./errors.ts";
export { enter, logIn, logOut, takeTicket, type Entered } from "./login.ts";
export { freshId } from "./ids.ts";
export { STREAMED } from "./protocol.ts";
export type * from "./protocol.ts";
