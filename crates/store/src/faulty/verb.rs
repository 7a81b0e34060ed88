//! The verbs of the contract, as values.

macro_rules! store_verbs {
    ($($variant:ident $name:literal $kind:ident,)+) => {
        /// One verb of the store contract. `owner`, `wakeups` and `changes` are not verbs: they do not reach the
        /// database.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum StoreVerb {
            $($variant,)+
        }

        impl StoreVerb {
            /// The name of the method.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(StoreVerb::$variant => $name,)+
                }
            }

            pub fn kind(self) -> VerbKind {
                match self {
                    $(StoreVerb::$variant => VerbKind::$kind,)+
                }
            }
        }
    };
}

/// The meaning of a lost answer for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbKind {
    /// The verb changes nothing.
    Read,
    /// The verb writes, and a repetition is harmless.
    Write,
    /// The outcome of the verb is unknown after a lost answer ([`crate::StoreError::OutcomeUnknown`]).
    Commit,
}

store_verbs! {
    RegisterSubmitters "register_submitters" Write,
    Accept "accept" Write,
    CancelQueued "cancel_queued" Write,
    PutCommands "put_commands" Write,
    Acquire "acquire" Write,
    Renew "renew" Write,
    Release "release" Write,
    LanesWithWork "lanes_with_work" Read,
    Census "census" Read,
    LoadLanes "load_lanes" Read,
    Commit "commit" Commit,
    PeekQueues "peek_queues" Read,
    OpenCommands "open_commands" Read,
    ReadEvents "read_events" Read,
    ClaimEvents "claim_events" Write,
    AckEvents "ack_events" Write,
    Submitters "submitters" Read,
    LaneStatus "lane_status" Read,
    OpenSlots "open_slots" Read,
    AuditLog "audit_log" Read,
    Get "get" Read,
    FindRequest "find_request" Read,
    UsedFor "used_for" Read,
    List "list" Read,
    Commands "commands" Read,
    Attempts "attempts" Read,
    EventsOf "events_of" Read,
    SaveHead "save_head" Write,
    Head "head" Read,
    ForgetHead "forget_head" Write,
    ClaimRetention "claim_retention" Write,
    ApplyRetention "apply_retention" Write,
    DeclareLost "declare_lost" Write,
    DeclareReconciled "declare_reconciled" Write,
}
