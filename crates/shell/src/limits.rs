//! How much text is read, and how deep.

/// The longest command line that is read. The longest that agents were seen to write, here-documents with whole
/// files included, stay below half of it; a person cannot check more than that anyway.
pub const MAX_BYTES: usize = 64 * 1024;

/// How deep commands, substitutions, quoted expansions and texts of `sh -c` may nest in each other. Nobody writes
/// ten; each level costs stack in the reader and in the walk over what was read.
pub const MAX_DEPTH: usize = 32;

/// How many texts of `sh -c`, `eval` and `ssh`, and commands of `find`, may stand in each other. Each is read anew, so this bounds the time.
pub const MAX_TEXTS: usize = 8;

/// How long the path of a folder may grow by `cd`, as systems have it for paths; beyond, the folder is unknown.
pub const MAX_FOLDER_BYTES: usize = 4096;

/// How many parts one command line may have. Every part carries the words of the wrappers around it, so this and
/// [`MAX_CARRIED_BYTES`] bound the memory that a text can cost.
pub const MAX_PARTS: usize = 2048;

/// How many bytes of words and assignments a wrapper may put before a text that is read in its turn
/// (`ssh HOST TEXT`): they are repeated in every command of that text.
pub const MAX_CARRIED_BYTES: usize = 4096;
