//! Loss detection: which segments are lost, and which detections were spurious. The folder `recovery`
//! decides how much may be sent.

pub(super) mod dupthresh;
pub(super) mod rack;
pub(super) mod rto;
pub(super) mod tlp;
pub(super) mod undo;
