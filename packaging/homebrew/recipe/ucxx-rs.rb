class UcxxRs < Formula
  desc "Communication over UCX for C and C++, with an engine in Rust"
  homepage "@HOMEPAGE@"
  url "@SOURCE_URL@"
  sha256 "@SOURCE_SHA256@"
  license "BSD-3-Clause"

  depends_on "pkgconf" => [:build, :test]
  depends_on "rust" => :build
  depends_on :linux
  # At least 1.13. A tap that has this formula needs one of UCX as well.
  depends_on "ucx"

  def install
    system "make", "install", "PREFIX=#{prefix}"
  end

  test do
    system bin/"ucxx_rs_info", "--versions"
    (testpath/"test.c").write <<~C
      #include <ucxx_rs.h>
      int main(void) {
        ucxx_version_t version = UCXX_VERSION_INIT;
        return ucxx_version_query(&version) != UCXX_OK || version.ucx_copies != 1;
      }
    C
    flags = shell_output("pkgconf --cflags --libs ucxx_rs").chomp.split
    system ENV.cc, "test.c", *flags, "-Wl,-rpath,#{lib}", "-o", "test"
    system "./test"
  end
end
