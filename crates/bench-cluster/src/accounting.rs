//! Resource usage of processes, from `/proc` (Linux only). CPU time is steadier than wall time, because other programs
//! do not count.

use std::fs;
use std::time::Duration;

/// `/proc` counts in hundredths of a second (`USER_HZ`), whatever the kernel's own clock is.
const TICK: Duration = Duration::from_millis(10);

/// One process, read from `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    parent: u32,
    own_ticks: u64,
    /// CPU time of ended children that were waited for.
    ended_ticks: u64,
}

/// CPU time of a process with all its threads; `None` if there is no such process.
pub(crate) fn cpu(pid: u32) -> Option<Duration> {
    stat(pid).map(|stat| ticks(stat.own_ticks))
}

/// CPU time of a process, its children, and its ended children.
pub(crate) fn cpu_of_family(pid: u32) -> Option<Duration> {
    let head = stat(pid)?;
    let children = processes().filter_map(stat).filter(|stat| stat.parent == pid).map(|stat| stat.own_ticks);
    Some(ticks(head.own_ticks + head.ended_ticks + children.sum::<u64>()))
}

/// The parent of a process, if both have this name.
pub(crate) fn parent_named(pid: u32, name: &str) -> Option<u32> {
    let parent = stat(pid).filter(|stat| stat.name == name)?.parent;
    stat(parent).filter(|stat| stat.name == name).map(|_| parent)
}

/// The command line of a process.
pub(crate) fn command_line(pid: u32) -> Option<String> {
    fs::read(format!("/proc/{pid}/cmdline")).ok().map(|text| String::from_utf8_lossy(&text).replace('\0', " "))
}

/// Peak memory of a process, in bytes.
pub(crate) fn peak_memory(pid: u32) -> Option<u64> {
    status_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM:")
}

/// Current memory of a process, in bytes.
pub(crate) fn memory(pid: u32) -> Option<u64> {
    status_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

fn ticks(count: u64) -> Duration {
    TICK.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// A process name may contain blanks and brackets, so fields are counted from the last bracket.
fn parse_stat(text: &str) -> Option<Stat> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // The first field here is the third of the manual page: the state.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        parent: u32::try_from(field(4)?).ok()?,
        own_ticks: field(14)? + field(15)?,
        ended_ticks: field(16)? + field(17)?,
    })
}

fn status_bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_is_parsed_with_any_process_name() {
        let line = "4242 (a) b (c) S 17 4242 4242 0 -1 4194560 900 11 2 0 130 20 7 3 20 0 4 0 12345 1000 50 \
                    18446744073709551615\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat, Stat { name: "a) b (c".to_owned(), parent: 17, own_ticks: 150, ended_ticks: 10 });
        assert_eq!(parse_stat("4242 (cut"), None);
        assert_eq!(parse_stat("4242 (cut) S 17 1 1"), None);
    }

    #[test]
    fn memory_is_read_in_kib() {
        let status = "Name:\tgapless\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(status_bytes(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(status_bytes(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(status_bytes(status, "VmSwap:"), None);
    }

    #[test]
    fn this_process_is_accounted_for() {
        let own = std::process::id();
        let before = cpu(own).unwrap();
        let mut sum = 0_u64;
        while cpu(own).unwrap() < before + 2 * TICK {
            sum = (0..100_000).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
        }
        assert!(cpu_of_family(own).unwrap() >= cpu(own).unwrap().saturating_sub(TICK), "{sum}");
        assert!(peak_memory(own).unwrap() >= memory(own).unwrap() / 2);
        assert_eq!(cpu(u32::MAX), None);
    }
}
