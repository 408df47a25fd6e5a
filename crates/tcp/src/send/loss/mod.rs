//! Loss detection: which segments are lost, and which detections were false. How much may be sent then is not decided here.

pub(super) mod dupthresh;
pub(super) mod rack;
pub(super) mod rto;
pub(super) mod tlp;
pub(super) mod undo;
