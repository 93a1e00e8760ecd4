//! SQLite's errors, in plain words with the way out.

use std::path::Path;

use portolan_core::ports::StoreError;
use rusqlite::{Error, ErrorCode};

use crate::rules::Refused;

/// Why a write did not go through.
#[derive(Debug)]
pub(super) enum Fault {
    /// The write itself is wrong and can never succeed.
    Refused(String),
    /// The database cannot be written at the moment.
    Database(Error),
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused.0)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let own_fault = match &error {
            Error::SqliteFailure(failure, _) => matches!(
                failure.code,
                ErrorCode::ConstraintViolation
                    | ErrorCode::TooBig
                    | ErrorCode::TypeMismatch
                    | ErrorCode::ParameterOutOfRange
            ),
            Error::ToSqlConversionFailure(_) => true,
            // Any other error (a missing table, say) concerns every write: refusing them one by one would lose all.
            _ => false,
        };
        if own_fault { Self::Refused(error.to_string()) } else { Self::Database(error) }
    }
}

/// The error in plain words.
pub(super) fn in_plain_words(path: &Path, error: &Error) -> String {
    let file = path.display();
    let Some(code) = error.sqlite_error_code() else {
        return format!("database `{file}`: {error}");
    };
    match code {
        ErrorCode::DiskFull => {
            format!("no space left for the database `{file}`; free some space on that disk")
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            format!("the database `{file}` is locked by another program; close that program")
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            let folder = path.parent().unwrap_or(path).display();
            format!(
                "the database `{file}` is read-only or was moved; make it and its folder `{folder}` writable"
            )
        }
        ErrorCode::SystemIoFailure => {
            format!(
                "the disk refused to read or write the database `{file}` ({error}); check the disk and its space"
            )
        }
        ErrorCode::CannotOpen => {
            let folder = path.parent().unwrap_or(path).display();
            format!(
                "the database `{file}` cannot be opened; the folder `{folder}` must exist and be writable"
            )
        }
        ErrorCode::NotADatabase => {
            format!("`{file}` is not a database; move it away, or use another PORTOLAN_HOME")
        }
        ErrorCode::DatabaseCorrupt => {
            format!(
                "the database `{file}` is damaged; restore a backup, or move the file away to start empty"
            )
        }
        ErrorCode::OutOfMemory => format!("no memory left for the database `{file}`; close some programs"),
        _ => format!("database `{file}`: {error}"),
    }
}

/// An error of opening or reading.
pub(super) fn failed(path: &Path, error: &Error) -> StoreError {
    StoreError::Failed(in_plain_words(path, error))
}
