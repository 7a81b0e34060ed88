//! The shapes of load, by name.

use std::time::Duration;

use crate::options::Options;
use crate::setup::Setting;

const WINDOW: u32 = 256;
/// The window of one account that fills blocks of a second.
const WIDE_WINDOW: u32 = 2000;
/// The window of each of ten accounts that are busy and put a thousand transactions into a block of a second.
const BUSY_WINDOW: u32 = 100;
const WIDE_TIMES: u64 = 3;
const LARGE_BYTES: usize = 4096;
/// Limit of open intents without a backlog: enough for every window, and for the intents that end between two reads of
/// progress.
const OPEN_MIN: u64 = 2048;
const OPEN_MAX: u64 = 4096;
/// A strict lane has one transaction per block, so a tenth of the intents is enough, and with one lane a hundredth.
const STRICT_PART: u64 = 10;
const STRICT_ONE_PART: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeName {
    Accepts,
    AcceptLatency,
    BroadcastLatency,
    ConfirmLatency,
    One,
    Ten,
    Fifty,
    Thousand,
    WideOne,
    WideTen,
    BusyTen,
    StrictOne,
    StrictFifty,
    Large,
    Backlog,
    Open,
    Nodes,
    Idle,
    Custom,
}

impl ShapeName {
    /// All shapes of a default run.
    pub const ALL: &'static [ShapeName] = &[
        ShapeName::Accepts,
        ShapeName::AcceptLatency,
        ShapeName::BroadcastLatency,
        ShapeName::ConfirmLatency,
        ShapeName::One,
        ShapeName::Ten,
        ShapeName::Fifty,
        ShapeName::Thousand,
        ShapeName::WideOne,
        ShapeName::WideTen,
        ShapeName::BusyTen,
        ShapeName::StrictOne,
        ShapeName::StrictFifty,
        ShapeName::Large,
        ShapeName::Backlog,
        ShapeName::Open,
        ShapeName::Nodes,
        ShapeName::Idle,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ShapeName::Accepts => "accepts",
            ShapeName::AcceptLatency => "accept-latency",
            ShapeName::BroadcastLatency => "broadcast-latency",
            ShapeName::ConfirmLatency => "confirm-latency",
            ShapeName::One => "one",
            ShapeName::Ten => "ten",
            ShapeName::Fifty => "fifty",
            ShapeName::Thousand => "thousand",
            ShapeName::WideOne => "wide-one",
            ShapeName::WideTen => "wide-ten",
            ShapeName::BusyTen => "busy-ten",
            ShapeName::StrictOne => "strict-one",
            ShapeName::StrictFifty => "strict-fifty",
            ShapeName::Large => "large",
            ShapeName::Backlog => "backlog",
            ShapeName::Open => "open",
            ShapeName::Nodes => "nodes",
            ShapeName::Idle => "idle",
            ShapeName::Custom => "custom",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|shape| shape.name() == name)
    }
}

/// An end-to-end shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) setting: Setting,
    pub(crate) intents: u64,
    pub(crate) calldata: usize,
    /// Limit of intents that are accepted and not ended.
    pub(crate) open_max: u64,
    /// Number of intents that are sent and not waited for.
    pub(crate) behind: u64,
}

impl Course {
    pub(crate) fn of(options: &Options, submitters: u32, window: u32) -> Self {
        let setting = Setting { submitters, window, nodes: 1, confirmations: 1, latency: Duration::ZERO };
        let room = u64::from(submitters) * u64::from(window) * 2;
        let (intents, calldata) = (options.intents(), options.calldata);
        Course { setting, intents, calldata, open_max: room.clamp(OPEN_MIN, OPEN_MAX), behind: 0 }
    }

    /// A course whose windows hold more than one block. More intents make the steady middle many blocks long.
    fn wide(options: &Options, submitters: u32, window: u32) -> Self {
        let course = Course::of(options, submitters, window);
        let room = u64::from(submitters) * u64::from(window);
        Course { intents: course.intents * WIDE_TIMES, open_max: room * 2, ..course }
    }

    /// The course of an end-to-end shape; `None` for other shapes.
    pub(crate) fn named(options: &Options, shape: ShapeName) -> Option<Self> {
        let part = |course: Course, part: u64| Course { intents: (course.intents / part).max(1), ..course };
        match shape {
            ShapeName::One => Some(Course::of(options, 1, WINDOW)),
            ShapeName::Ten => Some(Course::of(options, 10, WINDOW)),
            ShapeName::Fifty | ShapeName::Backlog | ShapeName::Open | ShapeName::Nodes => {
                Some(Course::of(options, 50, WINDOW))
            }
            ShapeName::Thousand => Some(Course::of(options, 1000, WINDOW)),
            ShapeName::WideOne => Some(Course::wide(options, 1, WIDE_WINDOW)),
            ShapeName::WideTen => Some(Course::wide(options, 10, WIDE_WINDOW / 4)),
            ShapeName::BusyTen => Some(Course::wide(options, 10, BUSY_WINDOW)),
            ShapeName::StrictOne => Some(part(Course::of(options, 1, 1), STRICT_ONE_PART)),
            ShapeName::StrictFifty => Some(part(Course::of(options, 50, 1), STRICT_PART)),
            ShapeName::Large => Some(Course { calldata: LARGE_BYTES, ..Course::of(options, 50, WINDOW) }),
            ShapeName::Custom => options.custom.map(|custom| {
                let course = Course::of(options, custom.submitters, custom.window);
                Course { setting: Setting { nodes: custom.nodes, ..course.setting }, ..course }
            }),
            ShapeName::Accepts
            | ShapeName::AcceptLatency
            | ShapeName::BroadcastLatency
            | ShapeName::ConfirmLatency
            | ShapeName::Idle => None,
        }
    }
}
