//! Past conversations that are read piece by piece, while somebody wants more.

use portolan_core::ports::{PAST_PIECES, PastError, PastPiece};
use tokio::sync::mpsc;

/// Reads a conversation into a queue, until its end or until nobody wants the rest.
pub(crate) fn pieces<R>(read: impl FnOnce(mpsc::Sender<PastPiece>) -> R) -> mpsc::Receiver<PastPiece>
where
    R: Future<Output = Result<(), PastError>> + Send + 'static,
{
    let (pieces, queue) = mpsc::channel(PAST_PIECES);
    let reading = read(pieces.clone());
    tokio::spawn(async move {
        let read = tokio::select! {
            read = reading => read,
            // The receiver does not want the rest.
            () = pieces.closed() => return,
        };
        let last = read.map_or_else(PastPiece::Failed, |()| PastPiece::End);
        // The receiver may not want this either.
        let _ = pieces.send(last).await;
    });
    queue
}
