//! Describes a context: versions, features, what UCX has found on this machine, and what its
//! configuration was changed by.

use crate::engine::base::status::Result;
use crate::engine::ucx::context::{feature, Context};
use crate::engine::ucx::printed::printed;
use crate::engine::ucx::runtime::{ucx_path, ucx_release};
use crate::sys;

const FEATURES: [(u64, &str); 6] = [
    (feature::TAG, "tag"),
    (feature::STREAM, "stream"),
    (feature::AM, "am"),
    (feature::RMA, "rma"),
    (feature::ATOMIC, "atomic"),
    (feature::WAKEUP, "wakeup"),
];

const MEMORY_TYPES: [(sys::ucs_memory_type_t, &str); 5] = [
    (sys::UCS_MEMORY_TYPE_HOST, "host"),
    (sys::UCS_MEMORY_TYPE_CUDA, "cuda"),
    (sys::UCS_MEMORY_TYPE_CUDA_MANAGED, "cuda-managed"),
    (sys::UCS_MEMORY_TYPE_ROCM, "rocm"),
    (sys::UCS_MEMORY_TYPE_ROCM_MANAGED, "rocm-managed"),
];

/// The names whose values are there.
fn listed<T: Copy>(names: &[(T, &str)], is_there: impl Fn(T) -> bool) -> String {
    let found = names.iter().filter(|(value, _)| is_there(*value)).map(|(_, name)| *name);
    found.collect::<Vec<_>>().join(",")
}

/// The lines of UCX's own description, without its frame and its columns:
/// `#      resource 3  :  md 2  dev 1  flags -- tcp/lo`.
fn lines_in(description: &str) -> impl Iterator<Item = String> + '_ {
    description.lines().filter_map(|line| {
        let words: Vec<_> = line.trim_start_matches('#').split_whitespace().collect();
        words.contains(&":").then(|| format!("  {}", words.join(" ").replace(" :", ":")))
    })
}

impl Context {
    /// A readable description: the context, the transports and devices that UCX has, and the
    /// variables that have been set.
    pub fn dump(&self) -> Result<Vec<String>> {
        self.check_fork()?;
        let mut lines = vec![
            format!(
                "context: ucxx_rs {}, UCX {} ({})",
                env!("CARGO_PKG_VERSION"),
                ucx_release(),
                ucx_path().to_string_lossy()
            ),
            format!(
                "  features {}, network {}, memory {}, {} bytes a request",
                listed(&FEATURES, |bit| self.has(bit)),
                if self.local_network { "local" } else { "all" },
                listed(&MEMORY_TYPES, |kind| self.has_memory_type(kind)),
                self.request_size
            ),
        ];
        // SAFETY: a live context, and an open stream. What is printed was set up with the context.
        let text = printed(|stream| unsafe {
            sys::ucp_context_print_info(self.handle(), stream.cast());
        });
        lines.extend(lines_in(&text));
        lines.extend(self.what_was_set().into_iter().map(|line| format!("  {line}")));
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_every_release_is_understood() {
        let text = "#\n# UCP context\n#\n#     component 0  :  self\n#\n\
                    #            md 0  :  component 0  self \n#\n\
                    #      resource 0  :  md 0  dev 0  flags -- self/memory0\n#\n";
        let lines: Vec<_> = lines_in(text).collect();
        assert_eq!(
            lines,
            [
                "  component 0: self",
                "  md 0: component 0 self",
                "  resource 0: md 0 dev 0 flags -- self/memory0"
            ]
        );
    }
}
